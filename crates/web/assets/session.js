// Who is signed in, whether the service asks for a token, and what the role allows; the same in all tabs.

import { connection } from "./connection.js";
import { identify } from "./identify.js";

/** @import { Identity } from "../types.d.ts" */

/** @typedef {"submit" | "operate" | "tokens" | "secrets" | "setSecrets" | "namespaces" | "audit"} Action */

export const SESSION = "/api/v1/auth/session";

const CHANNEL = "session";

/** Who the reader is where no token is asked for, and until the service has said. @type {Identity} */
const LOCAL = { Name: "local", Role: "admin", Namespaces: ["*"], TokenID: "", ExpireTime: "" };

/** The roles that may do it, as docs/security.md has them. @type {Record<Action, string[]>} */
const ROLES = {
  submit: ["submitter", "owner", "admin"],
  operate: ["operator", "admin"],
  tokens: ["owner", "admin"],
  secrets: ["submitter", "owner", "admin"],
  setSecrets: ["owner", "admin"],
  namespaces: ["admin"],
  audit: ["admin"],
};

/** @param {Identity} who @param {Action} action @param {string} [namespace] any, without it */
export function may(who, action, namespace) {
  const isEverywhere = namespace === undefined || who.Role === "admin" || action === "operate";
  return ROLES[action].includes(who.Role) &&
    (isEverywhere || who.Namespaces.some((name) => name === "*" || name === namespace));
}

/** The namespace that lists and new jobs begin with: the only one, unless that is the usual one. @param {Identity} who */
export function homeOf(who) {
  const [name] = who.Namespaces;
  return who.Namespaces.length === 1 && name !== "*" && name !== "default" ? name : "";
}

/** Where the pages of Access begin for a role; "" if it sees none of them. @param {Identity} who */
export function accessOf(who) {
  if (may(who, "tokens")) return "/access";
  return may(who, "operate") ? "/access/join-tokens" : may(who, "secrets") ? "/access/secrets" : "";
}

/** Fires `change` when it becomes known who is signed in or that changes, and `begin` after a sign-in. */
class Session extends EventTarget {
  who = LOCAL;
  /** Why a token is asked for. @type {"" | "first" | "ended" | "left"} */
  asks = "";
  /** Settles once the service was asked. @type {Promise<void>} */
  known = Promise.resolve();
  /** @type {Promise<void> | null} */
  #checking = null;
  /** @type {BroadcastChannel | null} */
  #tabs = null;
  /** What was asked before a sign-in or sign-out is no longer true. */
  #round = 0;

  start() {
    if (typeof BroadcastChannel !== "undefined") {
      this.#tabs = new BroadcastChannel(CHANNEL);
      this.#tabs.onmessage = ({ data }) => data === "left" ? this.#end() : void this.check();
    }
    // A token may have been given in another tab, or to another release of this page.
    document.addEventListener("visibilitychange", () => this.asks && !document.hidden && void this.check());
    connection.addEventListener("back", () => void this.check());
    this.known = this.check();
  }

  /** @param {Action} action @param {string} [namespace] */
  may(action, namespace) {
    return may(this.who, action, namespace);
  }

  get access() {
    return accessOf(this.who);
  }

  get home() {
    return homeOf(this.who);
  }

  /** Asks the service; called for any answer that a token is missing. @returns {Promise<void>} */
  check() {
    this.#checking ??= this.#ask().finally(() => this.#checking = null);
    return this.#checking;
  }

  async #ask() {
    const round = this.#round;
    const { status, identity } = await identify();
    if (round !== this.#round) return;
    if (status === 401) this.#become(LOCAL, this.asks || (this.who.TokenID ? "ended" : "first"));
    else if (identity) this.#become(identity, "");
  }

  /** The service has taken a token. @param {Identity} identity */
  begin(identity) {
    this.#round += 1;
    this.#become(identity, "");
    this.#tabs?.postMessage("begun");
  }

  /** The reader has signed out. */
  leave() {
    this.#end();
    this.#tabs?.postMessage("left");
  }

  #end() {
    this.#round += 1;
    this.#become(LOCAL, "left");
  }

  /** @param {Identity} who @param {Session["asks"]} asks */
  #become(who, asks) {
    const key = (/** @type {Identity} */ { ExpireTime: _, ...rest }) => JSON.stringify(rest);
    const isSame = asks === this.asks && key(who) === key(this.who);
    const isOther = this.asks !== "" || (this.who.TokenID !== "" && this.who.TokenID !== who.TokenID);
    this.who = who;
    this.asks = asks;
    if (isSame) return;
    this.dispatchEvent(new Event("change"));
    if (isOther && !asks) this.dispatchEvent(new Event("begin"));
  }
}

export const session = new Session();
