/** Orders: start a checkout, see how far it is, approve it, and see the order's document change. */
import { type FormEvent, useState } from "react";
import { createRoot } from "react-dom/client";
import { connect, ok } from "signalbox-client";
import { start, useDocument, useRun } from "./signalbox";

const client = connect({ baseUrl: `${location.origin}/` });
const address = (id: string) => ({ function: "shop", flow: "checkout", id });

function Orders() {
  const [id, setId] = useState("");
  const [said, setSaid] = useState("");

  async function order(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    const asked = new FormData(event.currentTarget);
    const order = String(asked.get("order"));
    try {
      await start(client, address(order), { order, item: "tea", count: 1, amount: Number(asked.get("amount")) });
      setSaid("");
      setId(order);
    } catch (failure) {
      setSaid(String(failure));
    }
  }

  return (
    <main>
      <h1>Orders of tea</h1>
      <form onSubmit={order}>
        <label>Order <input name="order" required /></label> <label>Amount <input name="amount" type="number" defaultValue={3000} /></label>{" "}
        <button>Order</button>
      </form>
      {said && <p role="alert">{said}</p>}
      {id && <Order id={id} />}
    </main>
  );
}

function Order({ id }: { readonly id: string }) {
  const { value: run, error } = useRun(client, address(id));
  const { value: document } = useDocument(client, `order-${id}`, 0.5);
  const waits = run?.state === "running" && (run.progress as { waits_for?: string } | null)?.waits_for === "approval";

  const answer = (approved: boolean) =>
    ok(
      client.POST("/{function}/flows/{flow}/{id}/events/{name}", {
        params: { path: { ...address(id), name: "approval" } },
        body: { value: { approved, by: "the page" } },
      }),
    );

  return (
    <section>
      <h2>Order {id}</h2>
      {error && <p role="alert">{error.message}</p>}
      <dl>
        <dt>Checkout</dt>
        <dd id="state">{run?.state ?? "…"}</dd>
        <dt>Document</dt>
        <dd id="document">{document === null ? "none" : String(document?.state ?? "…")}</dd>
      </dl>
      {waits && (
        <p>
          <button onClick={() => answer(true)}>Approve</button> <button onClick={() => answer(false)}>Decline</button>
        </p>
      )}
      {run?.state === "completed" && <p id="result">{(run.result as { parcel: string }).parcel}</p>}
      {run?.error && <p role="alert">{run.error.detail ?? run.error.title}</p>}
    </section>
  );
}

createRoot(document.getElementById("page")!).render(<Orders />);
