// What the reader has chosen, kept in this browser.

const KEY = "preferences";

/** @typedef {{ scheme: "system" | "light" | "dark", keys: boolean, palette: boolean, wrap: boolean, times: boolean }} Preferences */

/** @type {Preferences} */
const DEFAULTS = { scheme: "system", keys: true, palette: true, wrap: true, times: false };

/** @returns {Preferences} */
function read() {
  try {
    return { ...DEFAULTS, ...JSON.parse(localStorage.getItem(KEY) ?? "{}") };
  } catch {
    return { ...DEFAULTS };
  }
}

export const preferences = read();

/** @param {Partial<Preferences>} changed */
export function prefer(changed) {
  Object.assign(preferences, changed);
  try {
    localStorage.setItem(KEY, JSON.stringify(preferences));
  } catch {
    // Without storage the choice holds until the page is left.
  }
  applyScheme();
}

export function applyScheme() {
  const root = document.documentElement;
  if (preferences.scheme === "system") delete root.dataset.scheme;
  else root.dataset.scheme = preferences.scheme;
}
