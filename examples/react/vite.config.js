// The page and the functions have one origin: `npm run dev` passes every call of a function on to `signalbox dev`.
import { defineConfig } from "vite";

const FUNCTIONS = ["documents", "shop"];

export default defineConfig({
  server: { proxy: Object.fromEntries(FUNCTIONS.map((name) => [`/${name}`, process.env.BASE_URL ?? "http://127.0.0.1:8080"])) },
});
