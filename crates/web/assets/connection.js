// Knows whether the server answers, and probes it until it does again.

// The first probes follow soon: a restart takes a second, and the takeover of another orchestrator some
// seconds. Later ones spare a server in trouble.
const FIRST_PROBE_MS = 1000;
const LONGEST_PROBE_MS = 10_000;
const PROBE_TIMEOUT_MS = 5000;

class Connection extends EventTarget {
  /** Since when the server is away, or 0. */
  since = 0;
  /** When it is probed next. */
  nextProbe = 0;
  #delay = FIRST_PROBE_MS;
  #timer = 0;

  get isLost() {
    return this.since !== 0;
  }

  /** A request found no server. */
  lost() {
    if (this.since) return;
    this.since = Date.now();
    this.#delay = FIRST_PROBE_MS;
    this.#schedule();
    this.dispatchEvent(new Event("change"));
  }

  /** A response arrived. */
  answered() {
    if (!this.since) return;
    this.since = 0;
    clearTimeout(this.#timer);
    this.dispatchEvent(new Event("change"));
    this.dispatchEvent(new Event("back"));
  }

  #schedule() {
    clearTimeout(this.#timer);
    this.nextProbe = Date.now() + this.#delay;
    this.#timer = setTimeout(() => this.probe(), this.#delay);
    this.#delay = Math.min(LONGEST_PROBE_MS, this.#delay * 1.5);
  }

  /** Asks the server now. Any answer counts: one that is not ready says so itself. */
  async probe() {
    if (!this.since) return;
    clearTimeout(this.#timer);
    try {
      const response = await fetch("/readyz", {
        signal: AbortSignal.timeout(PROBE_TIMEOUT_MS),
        cache: "no-store",
      });
      await response.text();
      if (response.ok) return this.answered();
    } catch {
      // Still away.
    }
    this.#schedule();
    this.dispatchEvent(new Event("change"));
  }
}

export const connection = new Connection();
