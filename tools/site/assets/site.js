// Search box, results, light and dark. Works from a file:// address: the index is a script.
(function () {
  "use strict";
  const root = document.documentElement.dataset.root;
  const form = document.querySelector("form.search"), input = form.querySelector("input");
  const hits = document.getElementById("site.hits");
  let search = null, waiting = null, chosen = -1;

  function load() {
    if (!waiting) {
      waiting = new Promise((resolve, reject) => {
        const script = document.createElement("script");
        script.src = root + "assets/index.js";
        script.onload = () => resolve(search = new Search(window.searchIndex));
        script.onerror = () => {  // the next key tries again
          script.remove();
          waiting = null;
          reject(new Error(script.src));
        };
        document.head.append(script);
      });
    }
    return waiting;
  }

  const unread = "<p class=none>The index of the search, assets/index.js, cannot be read.</p>";

  function item(hit, words) {
    const marked = Search.marked;
    const name = hit.kind === "op" || hit.kind === "file" || hit.kind === "type" || hit.kind === "derived" ? "code" : "span";
    const section = hit.section ? ` <span class=of>› ${marked(hit.section, words)}</span>` : "";
    return `<a class=hit href="${root + hit.path}"><${name} class=where>${marked(hit.page, words)}</${name}>${section}` +
      `<span class=kind>${search.index.names[hit.kind]}</span><span class=excerpt>${marked(hit.excerpt, words)}</span></a>`;
  }

  function list(query, limit) {
    const found = search.find(query, limit), words = Search.words(query);
    if (found.length) return found.map((hit) => item(hit, words)).join("");
    return `<p class=none>Nothing has the words ${Search.escaped(query)}.</p>`;
  }

  async function show() {
    const query = input.value.trim();
    if (!query) {
      hits.hidden = true;
      return;
    }
    const start = performance.now();
    if (!search) await load().catch(() => {});
    hits.innerHTML = search ? list(input.value.trim(), 8) : unread;
    hits.hidden = false;
    chosen = -1;
    document.documentElement.dataset.searched = (performance.now() - start).toFixed(1);
  }

  function choose(step) {
    const links = hits.querySelectorAll("a.hit");
    if (!links.length) return;
    if (chosen >= 0) links[chosen].classList.remove("chosen");
    chosen = (chosen + step + links.length) % links.length;
    links[chosen].classList.add("chosen");
    links[chosen].scrollIntoView({block: "nearest"});
  }

  if (window.requestIdleCallback && matchMedia("(hover: hover)").matches) requestIdleCallback(() => load().catch(() => {}));
  input.addEventListener("focus", () => load().catch(() => {}));
  input.addEventListener("input", show);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      choose(event.key === "ArrowDown" ? 1 : -1);
      event.preventDefault();
    } else if (event.key === "Escape") {
      hits.hidden = true;
      input.blur();
    } else if (event.key === "Enter" && chosen >= 0) {
      event.preventDefault();
      hits.querySelectorAll("a.hit")[chosen].click();
      hits.hidden = true;
    }
  });
  document.addEventListener("click", (event) => {
    if (!form.contains(event.target)) hits.hidden = true;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      input.focus();
    }
  });

  document.querySelector("button.theme").addEventListener("click", () => {
    const html = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const theme = (html.dataset.theme || (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
    html.dataset.theme = theme;
    try {
      localStorage.setItem("theme", theme);
    } catch (error) {
      // A page from a file may not keep anything: the switch then holds for this page.
    }
  });

  // The page of all results: search.html?q=...
  const results = document.getElementById("site.results");
  if (results) {
    const query = new URLSearchParams(location.search).get("q") || "";
    input.value = query;
    if (query) load().then(() => { results.innerHTML = list(query, 40); }, () => { results.innerHTML = unread; });
  }
  const current = document.querySelector(".beside [aria-current]");
  if (current) current.closest(".beside").scrollTop = current.offsetTop - 160;
})();
