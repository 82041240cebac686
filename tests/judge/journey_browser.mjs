// Walks one journey in Chromium driven by Playwright: node SCRIPT PACKAGE OPTIONS, where SCRIPT calls `walk`.
// OPTIONS is JSON: journey, chromium, device, scheme, hasScript, axe, pictures, and what the journeys need.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const { chromium } = createRequire(import.meta.url)(process.argv[2]);
const DEVICES = {
  phone: { viewport: { width: 375, height: 740 }, hasTouch: true, isMobile: true },
  desktop: { viewport: { width: 1280, height: 900 } },
};

export const options = JSON.parse(process.argv[3]);
export const seen = { violations: [], errors: [], requests: [], steps: {} };

// Opens a browser, walks the journey that the options name, and prints what was seen.
// `makeJourneys` gets the page, its context and `look`, and returns the journeys by name.
export async function walk(makeJourneys) {
  const browser = await chromium.launch({ executablePath: options.chromium, args: ["--no-sandbox"] });
  try {
    const context = await browser.newContext({
      ...DEVICES[options.device],
      colorScheme: options.scheme,
      javaScriptEnabled: options.hasScript,
      timezoneId: "Europe/Oslo",
      locale: "en-GB",
    });
    const page = await context.newPage();
    page.setDefaultTimeout(20000);
    page.on("console", (message) => message.type() === "error" && seen.errors.push(message.text()));
    page.on("pageerror", (error) => seen.errors.push(String(error)));
    page.on("request", (request) => seen.requests.push(request.url()));
    await makeJourneys({ page, context, look: (step) => look(page, step) })[options.journey]();
  } finally {
    await browser.close();
  }
  console.log(JSON.stringify(seen));
}

// Checks the page as it is now, and keeps its text and, if asked, its picture.
async function look(page, step) {
  // axe needs scripts, which the CSP of the page would not allow, but the debugger may run
  if (options.hasScript) {
    await page.evaluate(readFileSync(options.axe, "utf8"));
    const result = await page.evaluate(() => axe.run());
    for (const one of result.violations) seen.violations.push(`${step}: ${one.id}: ${one.nodes[0].html}`);
  }
  const wide = await page.locator("html").evaluate((root) => root.scrollWidth - root.clientWidth);
  if (wide > 0) seen.violations.push(`${step}: ${wide} pixels wider than the screen`);
  seen.steps[step] = (await page.locator("main").innerText()).replace(/\s+/g, " ");
  if (options.pictures) await photograph(page, `${options.pictures}/${step}-${options.device}-${options.scheme}.png`);
}

async function photograph(page, path) {
  const size = await page.evaluate(() => ({ width: innerWidth, height: document.documentElement.scrollHeight }));
  const height = Math.min(size.height, options.most ?? size.height);
  await page.screenshot({ path, fullPage: true, clip: { x: 0, y: 0, width: size.width, height } });
}
