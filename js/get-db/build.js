// Compiles into dist/. If BOUGH_INSTANT_URL is set, it becomes the default URL of the platform.

import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const compiler = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin", "tsc");
const folder = import.meta.dirname;
const defaultHost = process.env.BOUGH_INSTANT_URL;

if (defaultHost && !/^https?:$/.test(new URL(defaultHost).protocol)) {
  throw new Error("BOUGH_INSTANT_URL must be an http or https URL.");
}
rmSync(join(folder, "dist"), { recursive: true, force: true });
execFileSync(process.execPath, [compiler, "--project", folder], { stdio: "inherit" });
if (defaultHost) {
  writeFileSync(
    join(folder, "dist", "default-host.js"),
    `export const DEFAULT_HOST = ${JSON.stringify(defaultHost)};\n`,
  );
}
