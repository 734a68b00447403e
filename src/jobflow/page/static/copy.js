// A button with data-copy copies that text; "previous" is the text of the element before it.
document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (!button) return;
  const { copy } = button.dataset;
  const text = copy === "previous" ? button.previousElementSibling.textContent : copy;
  const label = (button.dataset.label ??= button.textContent);
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not copied";
  }
  setTimeout(() => (button.textContent = label), 1500);
});
