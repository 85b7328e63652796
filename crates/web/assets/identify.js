// Asks as whom the service knows this browser; the shared worker asks the same.

/** @import { Identity } from "../types.d.ts" */

const TIMEOUT_MS = 10_000;

/** @returns {Promise<{ status: number, identity: Identity | null }>} status 0 if nothing answers */
export async function identify() {
  try {
    const response = await fetch("/api/v1/auth/identity", {
      cache: "no-store",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    return { status: response.status, identity: response.ok ? await response.json() : null };
  } catch {
    return { status: 0, identity: null };
  }
}
