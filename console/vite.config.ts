import react from "@vitejs/plugin-react";
import { brotliCompress, constants, gzip } from "node:zlib";
import { promisify } from "node:util";
import { defineConfig, type Plugin } from "vite";

const COMPRESSED = /\.(js|css|html|svg|json)$/;
const FROM_BYTES = 1024;

/** Writes each text file compressed beside itself, once, so that the gateway need not compress it for each browser. */
export function compressed(): Plugin {
  return {
    name: "compressed",
    apply: "build",
    enforce: "post",
    // After Vite's own plugins, which still change the scripts in this hook.
    generateBundle: {
      order: "post",
      async handler(_options, bundle) {
        for (const [fileName, output] of Object.entries(bundle)) {
          const content = Buffer.from(output.type === "chunk" ? output.code : output.source);
          if (!COMPRESSED.test(fileName) || content.length < FROM_BYTES) continue;
          const brotli = await promisify(brotliCompress)(content, {
            params: { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY },
          });
          this.emitFile({ type: "asset", fileName: `${fileName}.br`, source: brotli });
          this.emitFile({ type: "asset", fileName: `${fileName}.gz`, source: await promisify(gzip)(content, { level: 9 }) });
        }
      },
    },
  };
}

/**
 * Each file is a request. What every page needs is one file, and the list of jobs, whose table most pages have too, is
 * another one. What other pages share is two: the components of the library, and our own. Each imports only those before
 * it: files that import each other run before what they import is defined.
 */
const CHUNKS = [
  { name: "start", tags: ["$initial" as const], priority: 3 },
  { name: "jobs", test: /src[\\/]jobs[\\/]JobsPage/, priority: 2 },
  { name: "library", test: /node_modules[\\/](@mantine|@floating-ui|react-|@tanstack|clsx|tabbable|use-)/, minShareCount: 2, priority: 1 },
  { name: "shared", test: /^(?!.*node_modules)[^\0]*[\\/]src[\\/]/, minShareCount: 2, priority: 0 },
];

const gateway = process.env["CLUSTERRA_GATEWAY"];

export default defineConfig({
  plugins: [react(), compressed()],
  // The gateway puts a nonce of each answer in place of this word.
  html: { cspNonce: "CSP_NONCE" },
  build: {
    target: "es2023",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // All styles together are small, and each file of them is a request before a page is drawn.
    cssCodeSplit: false,
    rolldownOptions: { output: { codeSplitting: { groups: CHUNKS } } },
  },
  worker: { format: "es" },
  server: gateway === undefined ? {} : { proxy: { "/v1": { target: gateway } } },
});
