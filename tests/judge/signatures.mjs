// Verify a message's DKIM signatures with mailauth: node signatures.mjs PACKAGE RECORDS < message.eml
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const { dkimVerify } = createRequire(import.meta.url)(`${process.argv[2]}/lib/dkim/verify.js`);
const records = JSON.parse(process.argv[3]);
const resolver = async (name) => {
  if (!(name in records)) throw Object.assign(new Error("no such name"), { code: "ENOTFOUND" });
  return [[records[name]]];
};
const { results } = await dkimVerify(readFileSync(0), { resolver });
console.log(JSON.stringify(results.map(({ signingDomain, selector, algo, status }) => ({ signingDomain, selector, algo, result: status.result, comment: status.comment ?? "" }))));
