// What furo leaves out for a screen reader and a keyboard.
addEventListener("load", () => {
  const all = (selector) => document.querySelectorAll(selector);
  for (const caption of all(".caption[role=heading]")) caption.ariaLevel = 2;
  for (const side of all("aside")) {
    side.ariaLabel = side.matches(".toc-drawer") ? "On this page" : "Pages";
  }
  for (const wide of all("pre, .table-wrapper, p:has(> img)")) {
    if (wide.scrollWidth > wide.clientWidth) wide.tabIndex = 0;
  }
});
