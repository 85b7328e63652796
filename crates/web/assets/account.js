// Who is signed in, and the way out.

import { change } from "./api.js";
import { fill, h } from "./dom.js";
import { inOneLine } from "./notes.js";
import { notify } from "./notice.js";
import { SESSION, session } from "./session.js";
import { absolute, millis } from "./time.js";

/** @import { Identity } from "../types.d.ts" */

export function account() {
  const box = h("section", { class: "account", "aria-label": "Signed in as" });
  const update = () => {
    const { who } = session;
    box.hidden = !who.TokenID;
    if (box.hidden) return fill(box);
    const until = millis(who.ExpireTime);
    fill(
      box,
      h(
        "p",
        { title: until ? `Signed in until ${absolute(until)}` : null },
        h("strong", null, who.Name),
        " ",
        h("span", { class: "small muted" }, roleText(who)),
      ),
      h("button", { type: "button", class: "quiet", onclick: () => void signOut() }, "Sign out"),
    );
  };
  session.addEventListener("change", update);
  update();
  return box;
}

/** The role with the namespaces that it applies to. @param {Pick<Identity, "Role" | "Namespaces">} who */
export function roleText({ Role, Namespaces }) {
  if (Role === "operator" || Role === "admin" || !Namespaces.length) return Role;
  if (Namespaces.includes("*")) return `${Role} everywhere`;
  return Namespaces.length > 2
    ? `${Role} in ${Namespaces.length} namespaces`
    : `${Role} in ${Namespaces.join(" and ")}`;
}

async function signOut() {
  try {
    await change("DELETE", SESSION);
  } catch (error) {
    if (!session.asks) notify(`You are still signed in: ${inOneLine(error)}`, "failed");
    return;
  }
  // The next reader at this browser is another person.
  const { saveDraft } = await import("./submit/draft.js");
  saveDraft(null);
  session.leave();
}
