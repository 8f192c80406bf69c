"use strict";
// A picture on a canvas that is as large as what is visible of it, and scrolls over rows of any number.

/** Makes an element with attributes and children; strings become text, never markup. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key in made && key !== "list" && key !== "form") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

const waiting = new Set();

/** Run a function once before the next frame, however often it is asked for. */
function beforeNextFrame(draw) {
  if (!waiting.size) requestAnimationFrame(() => {
    const now = [...waiting];
    waiting.clear();
    for (const each of now) each();
  });
  waiting.add(draw);
}

class Surface {
  /**
   * `picture` has draw(surface), and may have click(x, y, surface), drag(dx), zoom(factor, x). Or, in place of draw,
   * place(surface), drawStill(surface) for what the present moment does not change, and drawNow(surface) for the rest.
   */
  constructor(picture, label) {
    this.picture = picture;
    this.canvas = element("canvas", { tabIndex: -1 });
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", label);
    this.spacer = element("div", { className: "spacer" }, this.canvas);
    this.host = element("div", { className: "surface", tabIndex: 0 }, this.spacer);
    this.host.setAttribute("role", "group");
    this.host.setAttribute("aria-label", label);
    // Pictures fill their canvas: browsers need not blend one that is opaque with what is behind it.
    this.pen = this.canvas.getContext("2d", { alpha: false });
    this._drawn = [];
    this.width = this.height = this.scroll = 0;
    this.room = { width: 0, height: 0 };
    this._redraw = () => this._draw();
    this.host.addEventListener("scroll", () => {
      this.scroll = this.host.scrollTop;
      this.invalidate();
    }, { passive: true });
    new ResizeObserver(([{ contentRect }]) => {
      this.room = { width: Math.round(contentRect.width), height: Math.round(contentRect.height) };
      this.invalidate();
    }).observe(this.host);
    this._listen();
  }

  /** How high the whole picture is. The host becomes as high, if there is room; otherwise it scrolls. */
  set contentHeight(pixels) {
    const height = `${Math.max(1, Math.round(pixels))}px`;
    if (this._content === height) return;
    this._content = height;
    this.spacer.style.height = height;
    this.host.parentElement?.style.setProperty("--content", height);
  }

  invalidate() { beforeNextFrame(this._redraw); }

  _draw() {
    const { width, height } = this.room, ratio = window.devicePixelRatio || 1;
    if (!width || !height || !this.picture.stage.history) return;
    if (this.width !== width || this.height !== height || this._ratio !== ratio) {
      this.width = width; this.height = height; this._ratio = ratio;
      this.canvas.width = Math.round(width * ratio); this.canvas.height = Math.round(height * ratio);
      this.canvas.style.width = `${width}px`; this.canvas.style.height = `${height}px`;
      this.pen.fontKey = "";
    }
    if (this.picture.drawStill) {
      this.picture.place(this);
      this._drawStill();
      this.picture.drawNow(this);
    } else {
      this._begin();
      this.picture.draw(this);
    }
  }

  /** An empty canvas, in CSS pixels. */
  _begin() {
    const { pen, width, height, _ratio: ratio } = this;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = look.colors.panel;
    pen.fillRect(0, 0, width, height);
    pen.textBaseline = "middle";
    pen.textAlign = "left";
  }

  /** What does not change with the moment: drawn for a new window, and kept if the same window is drawn again. */
  _drawStill() {
    const { picture, width, height } = this, { history, axis } = picture.stage;
    const now = [history, history.takes, axis.left, axis.scale, axis.isToScale, axis.end, this.scroll, width, height, this._ratio, look.version];
    const isSame = now.every((each, place) => each === this._drawn[place]);
    this._drawn = now;
    if (!isSame) {
      this._isKept = false;
      this._begin();
      picture.drawStill(this);
      return;
    }
    if (!this._isKept) this._keepStill();
    this.pen.setTransform(1, 0, 0, 1, 0, 0);
    this.pen.drawImage(this._kept, 0, 0);
    this.pen.setTransform(this._ratio, 0, 0, this._ratio, 0, 0);
  }

  _keepStill() {
    this._kept ??= document.createElement("canvas");
    this._kept.width = this.canvas.width; this._kept.height = this.canvas.height;
    const shownPen = this.pen;
    this.pen = this._kept.getContext("2d", { alpha: false });
    this.pen.fontKey = "";
    this._begin();
    this.picture.drawStill(this);
    this.pen = shownPen;
    this._isKept = true;
  }

  _listen() {
    const pointers = new Map();
    let moved = 0, began = null;
    this.canvas.addEventListener("pointerdown", (event) => {
      pointers.set(event.pointerId, event);
      if (pointers.size === 1) { moved = 0; began = event; }
    });
    this.canvas.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      if (!before) return;
      const [one, other] = [...pointers.values()];
      if (other && this.picture.zoom) {
        const still = before === one ? other : one;
        const was = Math.hypot(before.offsetX - still.offsetX, before.offsetY - still.offsetY);
        const now = Math.hypot(event.offsetX - still.offsetX, event.offsetY - still.offsetY);
        this.picture.zoom(now / Math.max(1, was), (event.offsetX + still.offsetX) / 2);
        moved += 10;
      } else if (this.picture.drag) {
        const dx = event.offsetX - before.offsetX;
        moved += Math.abs(dx);
        if (moved > 4) {
          this.canvas.setPointerCapture(event.pointerId);
          this.picture.drag(dx);
        }
      }
      pointers.set(event.pointerId, event);
    });
    const end = (event) => {
      if (pointers.delete(event.pointerId) && moved <= 4 && event.type === "pointerup" && began) {
        this.picture.click?.(event.offsetX, event.offsetY, this);
      }
    };
    for (const name of ["pointerup", "pointercancel"]) this.canvas.addEventListener(name, end);
    this.host.addEventListener("wheel", (event) => {
      if (event.ctrlKey && this.picture.zoom) this.picture.zoom(Math.exp(-event.deltaY / 300), event.offsetX);
      else if ((event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) && this.picture.drag) {
        this.picture.drag(-(event.deltaX || event.deltaY));
      } else return;
      event.preventDefault();
    }, { passive: false });
  }
}

const widths = new Map();

function textWidth(pen, text) {
  if (!widths.has(pen.fontKey)) widths.set(pen.fontKey, new Map());
  const known = widths.get(pen.fontKey);
  let found = known.get(text);
  if (found === undefined) {
    if (known.size > 20_000) known.clear();
    known.set(text, (found = pen.measureText(text).width));
  }
  return found;
}

/** The longest of some texts that fits; empty if none does. */
function fitting(pen, texts, room) {
  return texts.find((each) => textWidth(pen, each) <= room) ?? "";
}

/** A text, with an ellipsis where it does not fit; empty if there is no room for three letters. */
function shortened(pen, text, room) {
  if (textWidth(pen, text) <= room) return text;
  const letters = [...text];
  let low = 0, high = letters.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(`${letters.slice(0, middle).join("")}…`).width <= room) low = middle;
    else high = middle - 1;
  }
  return low < 2 ? "" : `${letters.slice(0, low).join("").trimEnd()}…`;
}

/** A rectangle of whole pixels. */
function box(pen, left, top, right, bottom) {
  pen.fillRect(Math.round(left), Math.round(top), Math.max(1, Math.round(right) - Math.round(left)), Math.round(bottom) - Math.round(top));
}

function line(pen, left, top, right, bottom) {
  pen.beginPath();
  pen.moveTo(left, top);
  pen.lineTo(right, bottom);
  pen.stroke();
}

/** An outline inside a rectangle of whole pixels. */
function frame(pen, left, top, right, bottom) {
  left = Math.round(left); top = Math.round(top);
  pen.strokeRect(left + 0.5, top + 0.5, Math.max(1, Math.round(right) - left - 1), Math.round(bottom) - top - 1);
}
