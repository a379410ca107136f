"""Peak memory of the worst requests, each in a separate process against Google's Firestore emulator."""
