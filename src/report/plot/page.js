"use strict";
(() => {
  const tip = document.getElementById("tip");
  for (const hit of document.querySelectorAll(".hit")) {
    const title = hit.querySelector("title");
    const lines = title.textContent.split("\n");
    title.remove();
    hit.addEventListener("pointerenter", () => {
      tip.replaceChildren();
      lines.forEach((line, i) => {
        const row = document.createElement(i ? "span" : "b");
        const cut = i ? line.indexOf(": ") : -1;
        if (cut < 0) row.textContent = line;
        else {
          const name = document.createElement("i");
          name.textContent = line.slice(0, cut);
          row.append(name, line.slice(cut + 2));
        }
        tip.append(row);
      });
      tip.hidden = false;
    });
    hit.addEventListener("pointermove", (event) => {
      const { width, height } = tip.getBoundingClientRect();
      const right = event.clientX + 16 + width < innerWidth;
      const x = right ? event.clientX + 16 : event.clientX - 16 - width;
      const y = event.clientY + 16 + height < innerHeight ? event.clientY + 16 : event.clientY - 16 - height;
      tip.style.left = Math.max(4, x) + "px";
      tip.style.top = Math.max(4, y) + "px";
    });
    hit.addEventListener("pointerleave", () => { tip.hidden = true; });
  }
})();
