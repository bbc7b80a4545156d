"use client";

export default function Page() {
  const order = () =>
    fetch("/api/orders", { method: "POST", body: JSON.stringify({ item: "a book", email: "ada@example.com" }) });
  return <button onClick={order}>Order a book</button>;
}
