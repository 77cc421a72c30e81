import { FatalError } from "workflow";

const arrow = async (n) => {
  "use step";
  return n + 1;
};

const expression = async function (n, { by = 10 } = {}) {
  "use step";
  return n + by;
};

async function spread(first, ...rest) {
  "use step";
  if (rest.length === 0) throw new FatalError("nothing to add");
  return rest.reduce((sum, n) => sum + n, first);
}

function synchronous(n) {
  "use step";
  return n * 100;
}

export async function main() {
  "use workflow";
  return [
    await arrow(1),
    await expression(1),
    await expression(1, { by: 2 }),
    await spread(1, 2, 3),
    await synchronous(2),
  ];
}
