// Sign in: stands in for the page that was asked for until the service has taken a token or an issuer's word.

import { issuerSignIn } from "../access/issuer.js";
import { ApiError, change } from "../api.js";
import { fill, h } from "../dom.js";
import { describe } from "../notes.js";
import { SESSION, session } from "../session.js";

/** @import { Shown, Visit } from "../../types.d.ts" */

/** @type {Record<typeof session.asks, string>} */
const REASONS = {
  "": "",
  first: "This service asks for a token. The page that you asked for opens as soon as you have signed in.",
  ended:
    "Your session has ended: it lasts 12 hours, and no longer than its token. Sign in again, and this page opens once more; a draft of a submission is kept.",
  left: "You have signed out.",
};

const REFUSED = "It was not copied whole, has expired, or was revoked. Paste it again, or ask for a new one.";

/** @param {Visit} visit @returns {Shown} */
export default function signIn({ signal }) {
  const input = h("input", {
    type: "password",
    id: "token",
    name: "token",
    class: "mono",
    autocomplete: "current-password",
    spellcheck: "false",
    autocapitalize: "none",
    placeholder: "jt1_…",
    required: true,
    autofocus: session.asks === "first",
    "aria-describedby": "token-source token-problem",
  });
  const problem = h("div", { id: "token-problem", role: "alert" });
  const button = h("button", { type: "submit", class: "primary" }, "Sign in");

  const attempt = async () => {
    button.disabled = true;
    fill(problem);
    input.removeAttribute("aria-invalid");
    try {
      session.begin(await change("POST", SESSION, { Token: input.value.trim() }, { signal }));
    } catch (error) {
      if (signal.aborted) return;
      const said = describe(error);
      const isRefused = error instanceof ApiError && error.status === 401;
      fill(
        problem,
        h(
          "div",
          { class: "panel failed" },
          h("h2", { class: "tone-failed" }, isRefused ? "The token was refused" : said.title),
          h("p", { class: "wrap" }, isRefused ? REFUSED : said.text),
          error instanceof ApiError && !isRefused ? h("p", { class: "muted" }, said.hint) : null,
        ),
      );
      input.setAttribute("aria-invalid", "true");
      input.focus();
    } finally {
      // Neither a good nor a bad token stays in the document.
      input.value = "";
      button.disabled = false;
    }
  };

  // form-action 'none' forbids submissions; the request is the script's.
  const form = h(
    "form",
    { class: "sign-in" },
    h("p", { role: session.asks === "ended" ? "alert" : null }, REASONS[session.asks]),
    ...issuerSignIn(signal),
    h(
      "label",
      { class: "field", for: "token" },
      h("span", null, "Token"),
      input,
    ),
    h(
      "div",
      { id: "token-source", class: "small muted" },
      h(
        "p",
        null,
        "An administrator of this service creates one with ",
        h("code", null, "jobctl token create NAME"),
        ".",
      ),
      h(
        "p",
        null,
        "The first is in the file ",
        h("code", null, "admin.token"),
        " of the orchestrator's data directory.",
      ),
    ),
    isSecureContext ? null : h(
      "div",
      { class: "panel attention" },
      h(
        "p",
        null,
        "This page came over plain HTTP: the token would travel unencrypted, and the session would not hold. Open the page over HTTPS.",
      ),
    ),
    problem,
    h("div", { class: "actions" }, button),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void attempt();
  });
  return {
    title: "Sign in",
    element: h("section", null, h("header", { class: "title" }, h("h1", null, "Sign in")), form),
    // Other tabs and links lead to the same question.
    update: () => true,
  };
}
