// The peer: node sharp.mjs FILE OUT QUALITY EFFORT. AVIF and a fallback of one picture, as sharp's own guide does it.
import { createRequire } from "node:module";
const sharp = createRequire(process.env.PEERS + "/")("sharp");
const [file, out, quality, effort] = process.argv.slice(2);
const fitted = sharp(file, { failOn: "warning" })
  .rotate()
  .resize({ width: 3840, height: 3840, fit: "inside", withoutEnlargement: true });
await fitted.clone().avif({ quality: Number(quality), effort: Number(effort) }).toFile(`${out}.avif`);
const { hasAlpha } = await sharp(file).metadata();
if (hasAlpha) await fitted.clone().png().toFile(`${out}.png`);
else await fitted.clone().jpeg({ quality: 90, mozjpeg: true }).toFile(`${out}.jpg`);
