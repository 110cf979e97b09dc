// Bundles get-db into one file, because a registry may have another package with that name.

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
