// Signing in at an issuer of OpenID Connect: the link that leads there, and what went wrong on the way back.

import { get } from "../api.js";
import { fill, h } from "../dom.js";
import { rewriteQuery } from "../router.js";

/** @import { SignInMethods } from "../../types.d.ts" */

const METHODS = "/api/v1/auth/methods";
const LOGIN = "/api/v1/auth/login";

/** The parameter with which the service says why the sign-in failed. */
const PROBLEM = "sign_in_problem";

/** A sentence for each word of the service. @type {Record<string, string>} */
const PROBLEMS = {
  off: "This service does not sign people in at an issuer.",
  away: "The issuer does not answer. Try again in a minute, or use a token.",
  denied: "The issuer did not sign you in, or you declined. Try again, or use a token.",
  other:
    "This sign-in was not begun in this browser, or took longer than ten minutes. Sign in once more; if that does not help, allow cookies for this page.",
  refused:
    "The answer of the issuer was not accepted. Sign in once more; if that does not help, an administrator of this service finds the reason in its log.",
  rules:
    "The issuer knows you, but no rule of this service gives you a role. Ask an administrator of this service for one.",
  failed: "The service could not open a session. Try again in a minute.",
};

/** The sentence for a word; an unknown one is of a newer service. @param {string} word */
export function problemText(word) {
  return PROBLEMS[word] ?? PROBLEMS.refused;
}

/** Where the link leads: the page that was asked for opens afterwards. @param {string} page */
export function loginPath(page) {
  return `${LOGIN}?to=${encodeURIComponent(page)}`;
}

/** The name of an issuer for people: its host. @param {string} issuer */
export function hostOf(issuer) {
  return URL.canParse(issuer) ? new URL(issuer).host : issuer;
}

/** Takes the problem out of the URL, so that it is told once. @returns {string} the word; "" for none */
function takeProblem() {
  const query = new URLSearchParams(location.search);
  const word = query.get(PROBLEM) ?? "";
  if (!word) return "";
  query.delete(PROBLEM);
  rewriteQuery(query);
  return word;
}

/** Appears where the service has an issuer. @param {AbortSignal} signal */
export function issuerSignIn(signal) {
  const word = takeProblem();
  const problem = word
    ? h(
      "div",
      { class: "panel failed", role: "alert" },
      h("h2", { class: "tone-failed" }, "You are not signed in"),
      h("p", { class: "wrap" }, problemText(word)),
    )
    : null;
  const link = h("div", { class: "actions", hidden: true });
  const show = async () => {
    /** @type {SignInMethods} */
    const { OIDC } = await get(METHODS, signal);
    if (!OIDC) return;
    const href = loginPath(location.pathname + location.search + location.hash);
    fill(link, h("a", { class: "button primary", href }, `Sign in with ${hostOf(OIDC.Issuer)}`));
    link.hidden = false;
  };
  // Without an answer there is the field for a token.
  show().catch(() => {});
  return [problem, link];
}
