// A page of its own: where the atlas finds its parts, and that its choices stand in the address.
const root = document.querySelector("main.heedful");
const data = JSON.parse(document.getElementById("heedful-data").textContent);
const address = {
  read: () => location.hash.slice(1),
  write: (link) => { try { history.replaceState(null, "", `#${link}`); } catch { /* a page without an address */ } },
};
