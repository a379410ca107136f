// The flows of tests/bench/flows as handlers of Restate. Serves on the port that is its argument.

// Of Node.js 22, and the library needs it; Node.js 20 lacks it.
Promise.withResolvers ??= function () {
  let resolve, reject;
  const promise = new this((...both) => ([resolve, reject] = both));
  return { promise, resolve, reject };
};

const restate = await import("@restatedev/restate-sdk");

const step = (context) => context.run("step", () => Date.now() / 1000);

const flow = restate.service({
  name: "Flow",
  handlers: {
    unit: step,
    chain: async (context, steps) => {
      const times = [];
      for (let number = 0; number < steps; number++) times.push(await step(context));
      return times;
    },
    calls: async (context, steps) => {
      const times = [];
      for (let number = 0; number < steps; number++) times.push(await context.serviceClient(flow).unit());
      return times;
    },
    fan: async (context, width) => {
      const first = await step(context);
      const units = Array.from({ length: width }, () => context.serviceClient(flow).unit());
      await restate.CombineablePromise.all(units);
      return [first, await step(context)];
    },
  },
});

await restate.serve({ services: [flow], port: Number(process.argv[2]) });
