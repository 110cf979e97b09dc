// Compile into dist/; BOUGH_INSTANT_URL, when it is set, becomes the address that the built tool asks by default.

import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const compiler = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin", "tsc");
const here = import.meta.dirname;
const address = process.env.BOUGH_INSTANT_URL;

if (address && !/^https?:$/.test(new URL(address).protocol)) {
  throw new Error("BOUGH_INSTANT_URL must be an http or https address.");
}
rmSync(join(here, "dist"), { recursive: true, force: true });
execFileSync(process.execPath, [compiler, "--project", here], { stdio: "inherit" });
if (address) {
  writeFileSync(join(here, "dist", "default-host.js"), `export const DEFAULT_HOST = ${JSON.stringify(address)};\n`);
}
