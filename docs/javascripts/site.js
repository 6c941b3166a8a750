/* Names that the theme leaves out, for people who hear the page: of the search, and of the buttons of each block of code. */
new MutationObserver(() => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  document.querySelectorAll("nav.md-code__nav").forEach((each, i) => { if (!each.ariaLabel) each.ariaLabel = `Block of code ${i + 1}`; });
}).observe(document, { childList: true, subtree: true });
