/** Pauses before a repeated call: exponential, with full jitter (Brooker, "Exponential Backoff and Jitter", 2015). */

const PAUSE_SECONDS_MAX = 8;

/** Wait before the repetition of a number, from 0 on. The first pause is at most `firstSeconds`, and each at least `leastSeconds`. */
export const pauseSeconds = (number: number, firstSeconds: number, leastSeconds = 0): number =>
  Math.max(leastSeconds, Math.random() * Math.min(firstSeconds * 2 ** number, PAUSE_SECONDS_MAX));

export const pause = (seconds: number): Promise<void> => new Promise((resume) => setTimeout(resume, seconds * 1000));
