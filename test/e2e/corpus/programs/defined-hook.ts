import { defineHook } from "workflow";
import { resumeHook } from "workflow/api";

interface Rating {
  stars: number;
}

const rating = defineHook<Rating>({
  schema: {
    "~standard": {
      version: 1,
      vendor: "corpus",
      validate: (value) => {
        const { stars } = value as Rating;
        return stars >= 1 && stars <= 5
          ? { value: { stars: Math.round(stars) } }
          : { issues: [{ message: "1 to 5" }] };
      },
    },
  },
});

async function rate(token: string, stars: number): Promise<void> {
  "use step";
  await resumeHook(token, { stars });
}

export async function main(token: string): Promise<unknown> {
  "use workflow";
  const hook = rating.create({ token });
  await hook.getConflict();
  await rate(token, 4.4);
  return await hook;
}
