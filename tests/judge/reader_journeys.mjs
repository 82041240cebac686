// Uses the pages of a reader: see journey_browser.mjs. The options also have urls.
import { options, walk } from "./journey_browser.mjs";

await walk(({ page, look }) => {
  const button = (name) => page.getByRole("button", { name, exact: true });
  const card = (name) => page.locator("article.card").filter({ has: page.getByRole("heading", { name, exact: true }) });

  return {
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
      await page.getByLabel("Time zone").fill("Europe/Olso");
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
      await button("Leave out papers like this").click();
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
      await look("account-unsure");
      await page.goto(options.urls.newAddress);
      await look("new-address");
      await page.goto(options.urls.account);
      await page.getByLabel("I am sure").check();
      await button("Erase everything").click();
      await page.getByRole("heading", { name: "Your data is erased." }).waitFor();
      await look("erased");
    },
    async "letter-links"() {
      await page.goto(options.urls.topicLinks);
      await look("letter-links");
      await button("Mail me the link").click();
      await page.getByText("We sent you a link.").waitFor();
      await look("letter-links-mailed");
      await button("1 week").click();
      await page.getByText("Paused until").first().waitFor();
      await look("letter-links-paused");
      await button("Resume now").click();
      await page.getByText("Welcome back.").waitFor();
      await page.goto(options.urls.newAddress);
      await button("Confirm").click();
      await page.getByRole("heading", { name: "Your address was changed." }).waitFor();
      await look("new-address-done");
    },
    async save() {
      await page.goto(options.urls.saved);
      await look("saved-none");
      await page.goto(options.urls.save);
      await look("save");
      await button("Save this paper").click();
      await page.getByText("Saved to your list.").waitFor();
      await look("save-saved");
      await page.goto(options.urls.saved);
      await look("saved");
      await page.getByRole("button", { name: "Remove" }).click();
      await page.getByText("No saved papers yet.").waitFor();
    },
    async archive() {
      await page.goto(options.urls.days);
      await look("days");
      await page.getByRole("link", { name: "19 November" }).click();
      await page.getByRole("link", { name: "20 November" }).waitFor();
      await look("day");
      await page.getByRole("link", { name: "Diffusion", exact: true }).click();
      await page.getByRole("heading", { name: "Diffusion", exact: true }).waitFor();
      await look("topic");
      await page.goto(options.urls.paper);
      await look("paper");
    },
    async problems() {
      await page.goto(options.urls.nowhere);
      await look("nowhere");
      await page.goto(options.urls.hidden);
      await look("removed");
      await page.goto(options.urls.cut);
      await look("cut");
      await page.getByLabel("Your email").fill("nobody");
      await button("Mail me a new link").click();
      await page.locator("#email-error").waitFor();
      await look("cut-error");
    },
    async why() {
      await page.goto(options.urls.why);
      await page.getByLabel("Title, arXiv id or DOI").fill("Language Models Forget Politely");
      await button("Ask").click();
      await page.locator(".done").waitFor();
      await look("why");
    },
  };
});
