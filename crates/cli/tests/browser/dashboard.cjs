// A person's way through the dashboard, in a real Chromium. Arguments: the dashboard's address, its token, and a folder for
// screenshots. Fails (exit 1) at the first thing that isn't as it should be.

const assert = require("node:assert/strict");
const { chromium } = require("playwright-core");

const [address, token, screenshots] = process.argv.slice(2);
const { hostile } = JSON.parse(process.env.ONCEKEY_TEST_SCENE);
const complaints = [];

async function main() {
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  page.setDefaultTimeout(60_000);
  // The page itself must not complain, nor must anything that was sent to it run. That the wrong token and the record that was
  // deleted are refused, the browser notes by itself.
  const refused = /^Failed to load resource: .* status of (401|404)/;
  page.on("console", (message) => message.type() === "error" && !refused.test(message.text()) && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("dialog", (dialog) => complaints.push(`a dialog: ${dialog.message()}`));

  await page.goto(address);
  await enter(page, "wrong");
  await page.getByText("That is not the token.").waitFor();
  await enter(page, token);

  await sees_what_waits(page);
  await resolves_one(page);
  await reads_hostile_text(page, browser);
  await purges_one(page);
  await changes_many(page);
  await fits_a_phone(page);
  assert.deepEqual(complaints, []);
  await browser.close();
}

async function enter(page, text) {
  await page.getByRole("textbox", { name: "Token" }).fill(text);
  await page.keyboard.press("Enter");
}

/** Unknown outcomes come first, with where each part stands above them. */
async function sees_what_waits(page) {
  await page.locator("#attention tbody tr").first().waitFor();
  const states = await page.locator("#attention tbody tr td:first-child").allTextContents();
  assert.ok(states.length >= 3 && states.every((state) => state === "unknown"), states.join());
  await page.locator("#status-node .good", { hasText: "ready" }).waitFor();
  await page.locator("#status-class .good", { hasText: "at most once" }).waitFor();
  await page.locator("#figures", { hasText: "Repeats" }).waitFor();
  await page.locator("#scopes li", { hasText: "acc-mismatch 1" }).waitFor();
}

/** By keyboard alone: opens an unknown record, says how it ended, and sees what its retry will get before that. */
async function resolves_one(page) {
  await page.getByLabel("Scope", { exact: true }).fill("acc-resolve");
  await page.keyboard.press("Enter");
  const link = page.locator("#records tbody button");
  await page.waitForFunction(() => document.querySelectorAll("#records tbody tr").length === 1);
  await link.focus();
  await page.keyboard.press("Enter");
  await page.locator("#record .facts", { hasText: "acc-resolve" }).waitFor();
  assert.match(page.url(), /\?id=[0-9a-f-]{36}$/);
  await page.locator("#resolve").focus();
  await page.keyboard.press("Enter");
  await page.getByLabel("It took effect").focus();
  await page.keyboard.press("Space");
  await page.locator("#change-next", { hasText: "Nothing is executed." }).waitFor();
  await page.getByRole("textbox", { name: "Status" }).fill("201");
  await page.getByLabel("Body", { exact: true }).fill('{"order_id":"by-hand"}');
  await page.getByLabel("Reason", { exact: true }).fill("the provider's report says so");
  await page.screenshot({ path: `${screenshots}/resolve.png` });
  await page.keyboard.press("Enter");
  await page.locator("#record .facts", { hasText: "completed" }).waitFor();
  await page.keyboard.press("Escape");
}

/** A link to one record shows it; whatever clients and upstreams wrote is text. */
async function reads_hostile_text(page) {
  await page.goto(`${address}/?id=${hostile}`);
  await page.locator("#show-answer").click();
  await page.locator("#record pre", { hasText: "<img src=x onerror=alert(1)>" }).waitFor();
  await page.locator("#record .facts", { hasText: "<script>alert(1)</script>" }).waitFor();
  assert.equal(await page.locator("#record img, #record script").count(), 0);
  await page.screenshot({ path: `${screenshots}/record.png` });
  await page.getByLabel("Close").click();
  await page.waitForURL((url) => url.search === "");
}

async function purges_one(page) {
  await search(page, "acc-purge");
  await page.locator("#records tbody button").click();
  await page.locator("#purge").click();
  await page.locator("#change-next", { hasText: "The key is forgotten" }).waitFor();
  await page.locator("#change-do").click();
  await page.locator("#record-body", { hasText: "There is no record" }).waitFor();
  await page.keyboard.press("Escape");
}

/** A dry run changes nothing; the change does what it said. */
async function changes_many(page) {
  await search(page, "acc-many");
  await page.locator("#bulk").click();
  await page.getByLabel("It did not take effect").check();
  await page.locator("#change-dry").click();
  await page.locator("#change-result", { hasText: "2 match; nothing was changed." }).waitFor();
  await page.screenshot({ path: `${screenshots}/bulk.png` });
  await page.locator("#change-do").click();
  await page.locator("#change-result", { hasText: "2 of 2 were changed." }).waitFor();
  await page.locator("#change-cancel").click();
}

async function search(page, scope) {
  await page.getByLabel("Scope", { exact: true }).fill(scope);
  await page.getByRole("button", { name: "Search" }).click();
  await page.locator("#records tbody tr", { hasText: scope }).first().waitFor();
}

async function fits_a_phone(page) {
  await page.goto(address);
  await page.locator("#chart-rates polyline").first().waitFor({ state: "attached" });
  await page.screenshot({ path: `${screenshots}/dashboard.png`, fullPage: true });
  await page.setViewportSize({ width: 390, height: 844 });
  await page.emulateMedia({ colorScheme: "dark" });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(wide <= 0, `${wide} pixels too wide`);
  await page.evaluate(() => scrollTo(0, 0));
  await page.screenshot({ path: `${screenshots}/phone.png` });
}

main().catch((error) => {
  console.error(error, complaints);
  process.exit(1);
});
