"""Peak memory of the worst requests, each in a process of its own against Google's Firestore emulator."""
