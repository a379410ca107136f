// The counter of tests/bench/objects.py as a virtual object of Restate. Serves on the port that is its argument.

// Of Node.js 22, and the library needs it; Node.js 20 lacks it.
Promise.withResolvers ??= function () {
  let resolve, reject;
  const promise = new this((...both) => ([resolve, reject] = both));
  return { promise, resolve, reject };
};

const restate = await import("@restatedev/restate-sdk");

const counter = restate.object({
  name: "Counter",
  handlers: {
    add: async (context) => {
      const total = ((await context.get("total")) ?? 0) + 1;
      context.set("total", total);
      return total;
    },
    show: async (context) => (await context.get("total")) ?? 0,
  },
});

await restate.serve({ services: [counter], port: Number(process.argv[2]) });
