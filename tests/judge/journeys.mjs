// Uses the site as a visitor does: see journey_browser.mjs. The options also have site and library.
import { options, seen, walk } from "./journey_browser.mjs";

const FORM_SECONDS = 2.3; // no person fills in a form faster, so the site refuses it
const address = `${options.journey}-${options.device}-${options.scheme}-${options.hasScript ? "script" : "plain"}@example.org`;

await walk(({ page, context, look }) => {
  const text = (selector) => page.locator(selector).innerText();

  async function openTopics() {
    await page.goto(`${options.site}/`);
    if (!options.pictures || options.journey === "chips") await look("front");
    await chooseTopics();
  }

  const chooseTopics = () => page.getByText("Only papers on my topics").click();

  // The preview appears by itself with a script, and by a button without.
  async function preview() {
    if (!options.hasScript) await page.getByRole("button", { name: "Show what I would get" }).click();
    await page.locator("#preview .would").first().waitFor();
    await page.waitForLoadState("networkidle");
    seen.preview = await text("#preview");
    await look(`preview-${options.journey}`);
  }

  async function subscribe(press = () => page.getByRole("button", { name: "Send me papers" }).click()) {
    await page.getByLabel("Your email").fill(address);
    await page.waitForTimeout(FORM_SECONDS * 1000);
    await press();
    await page.getByRole("heading", { name: "Check your inbox." }).waitFor();
    await look("sent");
  }

  async function mailed(subject) {
    for (let round = 0; round < 60; round++) {
      await page.goto(`${options.site}/outbox/`);
      const mail = page.locator("a", { hasText: address }).filter({ hasText: subject });
      if (await mail.count()) return mail.first().getAttribute("href");
      await page.waitForTimeout(1000);
    }
    throw new Error(`no mail "${subject}" to ${address}`);
  }

  async function confirm() {
    await page.goto(`${options.site}${await mailed("Confirm your subscription")}?as=text`);
    const link = (await text("main")).match(/\/c\/[\w.-]+/)[0];
    await page.goto(options.site + link);
    await look("confirm");
    await page.getByRole("button", { name: "Confirm" }).click();
    await page.getByRole("heading", { name: "You are subscribed." }).waitFor();
    await look("confirmed");
  }

  return {
    async chips() {
      await openTopics();
      await page.locator("label.chip", { hasText: "Robots" }).click();
      await page.locator("label.chip", { hasText: "Diffusion" }).click();
      await preview();
      await subscribe();
      await confirm();
    },
    async papers() {
      await page.goto(`${options.site}/`);
      for (const title of ["Flow Matching", "Flow Matching", "Flow Matching"]) {
        const open = page.locator(".cards > li", { hasText: title }).locator("label.like:not(:has(:checked))");
        if (await open.count()) await open.first().click();
      }
      if (!options.hasScript) await chooseTopics();
      await preview();
      await subscribe();
      await confirm();
    },
    async library() {
      await openTopics();
      await page.locator("#library").setInputFiles(options.library);
      await preview();
      await subscribe();
      await confirm();
    },
    async filter() {
      await openTopics();
      await page.locator("#filter").pressSequentially("robot* ANDNOT weather", { delay: 15 });
      await preview();
      await subscribe(() => page.locator("#filter").press("Enter")); // the default button, with a script or without
      await confirm();
    },
    async corrections() {
      await openTopics();
      await page.locator("label.chip", { hasText: "Robots" }).click();
      await page.locator("#filter").fill("robot* AND (arm");
      await page.getByLabel("Your email").fill("ada@gmial.com");
      await page.waitForTimeout(FORM_SECONDS * 1000);
      await page.getByRole("button", { name: "Send me papers" }).click();
      await page.getByRole("button", { name: "Use gmail.com" }).waitFor();
      await look("wrong");
      seen.filter = await page.locator("#filter").inputValue();
      seen.robots = await page.locator("label.chip", { hasText: "Robots" }).locator("input").isChecked();
      await page.locator("#filter").fill("robot* AND arm");
      await page.getByLabel("Your email").fill(address);
      await page.waitForTimeout(FORM_SECONDS * 1000);
      await page.getByRole("button", { name: "Send me papers" }).click();
      await page.getByRole("button", { name: "Change it" }).click();
      await page.locator("#sign-up").waitFor();
      seen.changed = {
        email: await page.getByLabel("Your email").inputValue(),
        filter: await page.locator("#filter").inputValue(),
        robots: await page.locator("label.chip", { hasText: "Robots" }).locator("input").isChecked(),
      };
    },
    async sample() {
      await openTopics();
      await page.locator("label.chip", { hasText: "Robots" }).click();
      const [letter] = await Promise.all([
        context.waitForEvent("page"),
        page.locator("#topics").getByRole("button", { name: "See it as an email" }).click(),
      ]);
      await letter.getByText("new papers").first().waitFor();
      seen.letter = await letter.locator("body").innerText();
      if (options.pictures) {
        await letter.screenshot({ path: `${options.pictures}/sample-${options.device}-${options.scheme}.png`, fullPage: true });
      }
    },
  };
});
