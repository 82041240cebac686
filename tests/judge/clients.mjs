// Says what the readers' mail programs do not show of a letter, by caniemail's data: node clients.mjs PACKAGE < letter.html
import { readFileSync } from "node:fs";

const { caniemail } = await import(`${process.argv[2]}/dist/index.js`);
const clients = ["gmail.*", "apple-mail.*", "outlook.*", "yahoo.*", "thunderbird.*"];
const { issues } = caniemail({ clients, html: readFileSync(0, "utf8") });
const found = {}; // feature: the clients without it
for (const [client, some] of issues.errors ?? []) {
  for (const { title } of some) found[title] = [...new Set([...(found[title] ?? []), client])];
}
console.log(JSON.stringify(found));
