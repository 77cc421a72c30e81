import { h, render } from "../shared/h";

function Mail({ to, lines }: { to: string; lines: string[] }) {
  return (
    <mail to={to}>
      {lines.map((line) => (
        <p>{line}</p>
      ))}
    </mail>
  );
}

async function renderMail(to: string, lines: string[]): Promise<string> {
  "use step";
  return render(<Mail to={to} lines={lines} />);
}

export async function main(to: string): Promise<string> {
  "use workflow";
  return renderMail(to, ["one", "two"]);
}
