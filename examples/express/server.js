import { createApp } from "./app.js";

const port = Number(process.env.PORT ?? 3000);
const url = process.env.APP_URL ?? `http://localhost:${port}`;
const sendMail = async (email) => console.log(`Welcome, ${email}!`);

createApp({ env: process.env, url, sendMail }).listen(port, () => console.log(`listening on ${url}`));
