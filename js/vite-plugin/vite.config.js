// One file that has get-db in it: a registry may know another package by that name.

import { defineConfig } from "vite";

export default defineConfig({
  logLevel: "warn",
  ssr: { noExternal: ["get-db"] },
  build: {
    ssr: "src/index.ts",
    outDir: "dist",
    emptyOutDir: false,
    target: "node20",
    rolldownOptions: { external: ["vite", "pg"] },
  },
});
