// Runs beside same-origin frames of several widths and writes what it sees into data-seen.
"use strict";

const channels = (colour) => {
  const [r, g, b, a = 1] = colour.match(/[\d.]+/g).map(Number);
  return { r, g, b, a };
};
const over = (front, back) => ({
  r: front.r * front.a + back.r * (1 - front.a),
  g: front.g * front.a + back.g * (1 - front.a),
  b: front.b * front.a + back.b * (1 - front.a),
  a: 1,
});
const luminance = ({ r, g, b }) => {
  const [x, y, z] = [r, g, b].map((v) => (v / 255 <= 0.04045 ? v / 3294.6 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const contrast = (one, other) => {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};

function background(element, canvas) {
  const layers = [];
  for (let at = element; at; at = at.parentElement) {
    const layer = channels(getComputedStyle(at).backgroundColor);
    layers.push(layer);
    if (layer.a === 1) break;
  }
  return layers.reverse().reduce((back, layer) => over(layer, back), canvas);
}

function speaks(element) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  const box = element.getBoundingClientRect();
  return own && box.width > 1 && box.height > 1 && element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
}

// WCAG 2.2, 1.4.3: 4.5 to 1, and 3 to 1 for large text.
function tooFaint(element, canvas) {
  const style = getComputedStyle(element);
  const size = parseFloat(style.fontSize);
  const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  const back = background(element, canvas);
  return contrast(over(channels(style.color), back), back) < (isLarge ? 3 : 4.5);
}

function see(frame) {
  const page = frame.contentDocument;
  const root = page.documentElement;
  const isDark = frame.contentWindow.matchMedia("(prefers-color-scheme: dark)").matches;
  const dark = isDark && getComputedStyle(root).colorScheme.includes("dark");
  const canvas = dark ? { r: 18, g: 18, b: 18, a: 1 } : { r: 255, g: 255, b: 255, a: 1 };
  const all = [...page.body.querySelectorAll("*")];
  const said = (element) => element.textContent.trim().replace(/\s+/g, " ").slice(0, 60);
  return {
    width: frame.contentWindow.innerWidth,
    is_dark: isDark,
    overflow: root.scrollWidth - root.clientWidth,
    first_title: Math.round(page.querySelector("h1 .title, h3")?.getBoundingClientRect().top ?? 0),
    words: page.body.innerText.trim().split(/\s+/).length,
    sticking_out: all.filter((e) => e.getBoundingClientRect().right > root.clientWidth + 1).map(said),
    faint: all.filter((e) => speaks(e) && tooFaint(e, canvas)).map(said),
  };
}

addEventListener("load", () => {
  const frames = [...document.querySelectorAll("iframe")];
  document.documentElement.dataset.seen = JSON.stringify(frames.map(see));
});
