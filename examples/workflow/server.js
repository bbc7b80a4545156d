import { createApp } from "./app.js";

const port = Number(process.env.PORT ?? 3000);
const url = process.env.APP_URL ?? `http://localhost:${port}`;
const sendMail = async (email, text) => console.log(email, text);
const isActive = async () => false;

createApp({ env: process.env, url, sendMail, isActive }).listen(port, () => console.log(`listening on ${url}`));
