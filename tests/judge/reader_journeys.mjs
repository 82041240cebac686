// Uses the pages of a reader in Chromium driven by Playwright: node reader_journeys.mjs PACKAGE OPTIONS
// OPTIONS is JSON: journey, urls, chromium, device, scheme, hasScript, axe, pictures.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const { chromium } = createRequire(import.meta.url)(process.argv[2]);
const options = JSON.parse(process.argv[3]);
const DEVICES = {
  phone: { viewport: { width: 375, height: 740 }, hasTouch: true, isMobile: true },
  desktop: { viewport: { width: 1280, height: 900 } },
};
const seen = { violations: [], errors: [], requests: [], steps: {} };

const browser = await chromium.launch({ executablePath: options.chromium, args: ["--no-sandbox"] });
const context = await browser.newContext({
  ...DEVICES[options.device],
  colorScheme: options.scheme,
  javaScriptEnabled: options.hasScript,
  locale: "en-GB",
});
const page = await context.newPage();
page.setDefaultTimeout(20000);
page.on("console", (message) => message.type() === "error" && seen.errors.push(message.text()));
page.on("pageerror", (error) => seen.errors.push(String(error)));
page.on("request", (request) => seen.requests.push(request.url()));

const button = (name) => page.getByRole("button", { name, exact: true });
const card = (name) => page.locator("article.card").filter({ has: page.getByRole("heading", { name, exact: true }) });

async function look(step) {
  // axe needs scripts, which the CSP of the page would not allow, but the debugger may run
  if (options.hasScript) {
    await page.evaluate(readFileSync(options.axe, "utf8"));
    const result = await page.evaluate(() => axe.run());
    for (const one of result.violations) seen.violations.push(`${step}: ${one.id}: ${one.nodes[0].html}`);
  }
  const wide = await page.locator("html").evaluate((root) => root.scrollWidth - root.clientWidth);
  if (wide > 0) seen.violations.push(`${step}: ${wide} pixels wider than the screen`);
  seen.steps[step] = (await page.locator("main").innerText()).replace(/\s+/g, " ");
  if (options.pictures) {
    const name = `${options.pictures}/${step}-${options.device}-${options.scheme}.png`;
    await page.screenshot({ path: name, fullPage: true });
  }
}

const journeys = {
  async settings() {
    await page.goto(options.urls.settings);
    await look("settings");
    await page.getByText("Add a topic", { exact: true }).click();
    await page.locator("#new-filter").fill("forget*");
    await page.locator(".is-add").getByRole("button", { name: "Try it" }).click();
    await page.getByText("Nothing is saved yet.").waitFor();
    await look("settings-tried");
    await page.locator("#new-name").fill("Memory");
    await button("Add topic").click();
    await page.getByText("Saved.", { exact: true }).waitFor();
    await look("settings-added");
    await card("Memory").getByText("Rename", { exact: false }).first().click();
    await card("Memory").getByLabel("New name").fill("Forgetting");
    await card("Memory").getByRole("button", { name: "Save name" }).click();
    await card("Forgetting").getByRole("button", { name: "Move up Forgetting" }).click();
    await card("Forgetting").getByRole("button", { name: "Mute Forgetting" }).click();
    await page.getByText("muted: left out of your digests").waitFor();
    await look("settings-muted");
    await page.locator("summary", { hasText: "Change" }).click();
    await page.getByLabel("Time zone").fill("Oslo");
    await page.locator("form").filter({ has: page.getByLabel("Time zone") }).getByRole("button", { name: "Save" }).click();
    await page.getByText("Did you mean Europe/Oslo?").waitFor();
    await look("settings-error");
  },
  async undo() {
    await page.goto(options.urls.settings);
    await card("Robots").getByRole("button", { name: "Remove Robots" }).click();
    await page.getByText("Removed the topic “Robots”").waitFor();
    await look("undo-removed");
    await button("Undo").click();
    await page.getByText("Undone.").waitFor();
    await card("Robots").waitFor();
    await look("undo-done");
  },
  async less() {
    await page.goto(options.urls.less);
    await look("less");
    await button("Change my topic").click();
    await page.getByText("Saved.", { exact: true }).waitFor();
    await look("less-applied");
    await button("Undo").click();
    await page.getByText("Undone.").waitFor();
    await look("less-undone");
  },
  async pause() {
    await page.goto(options.urls.settings);
    await page.locator("summary", { hasText: "Until a date" }).click();
    await page.locator("#until").fill("2027-01-06");
    await button("Pause").click();
    await page.getByText("Paused until 6 January 2027.").first().waitFor();
    await look("paused");
    await button("Resume now").click();
    await page.getByText("Welcome back.").waitFor();
    await look("resumed");
  },
  async unsubscribe() {
    await page.goto(options.urls.leave);
    await look("leave");
    await button("Unsubscribe").click();
    await page.getByRole("heading", { name: "You are unsubscribed." }).waitFor();
    await look("left");
    await page.getByText("The papers did not fit my interests").click();
    await page.getByLabel("In your own words").fill("I changed my field.");
    await button("Send").click();
    await page.getByText("Thank you.").waitFor();
    await look("left-thanked");
    await button("Undo and subscribe again").click();
    await page.getByRole("heading", { name: "You are subscribed again." }).waitFor();
    await look("back");
  },
  async account() {
    await page.goto(options.urls.account);
    await look("account");
    await page.getByLabel("New address").fill("nobody");
    await button("Change address").click();
    await page.locator("#email-error").waitFor();
    await look("account-error");
    await button("Erase everything").click();
    await page.locator("#erase-error").waitFor();
  },
  async why() {
    await page.goto(options.urls.why);
    await page.getByLabel("Title, arXiv id or DOI").fill("Language Models Forget Politely");
    await button("Ask").click();
    await page.locator(".done").waitFor();
    await look("why");
  },
};

try {
  await journeys[options.journey]();
} finally {
  await browser.close();
}
console.log(JSON.stringify(seen));
