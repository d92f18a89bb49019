import { defineConfig, passthroughImageService } from "astro/config";

export default defineConfig({
  site: "https://garden.example.com",
  // pictures come ready-made from the mail: they are copied, never encoded again
  image: { service: passthroughImageService() },
  build: { inlineStylesheets: "never" },
  vite: { build: { assetsInlineLimit: 0 } },
  devToolbar: { enabled: false },
});
