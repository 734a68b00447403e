// A file that is loaded when it is opened, and shown as text.
document.addEventListener("toggle", async (event) => {
  const { target } = event;
  if (!target.open || !target.dataset?.load) return;
  const file = target.querySelector("pre");
  if (!file.textContent) file.textContent = "Loading…";
  try {
    const answer = await fetch(target.dataset.load);
    file.textContent = await answer.text();
  } catch {
    file.textContent = "The page has lost its connection to `jobflow ui`.";
  }
}, true);
