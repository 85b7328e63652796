// Applies the remembered colour scheme before the first paint, so that no page flashes.
(() => {
  try {
    const { scheme } = JSON.parse(localStorage.getItem("preferences") ?? "{}");
    if (scheme === "light" || scheme === "dark") document.documentElement.dataset.scheme = scheme;
  } catch {
    // Without storage the system's scheme holds.
  }
})();
