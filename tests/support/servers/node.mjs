// HTTP/2 as Node has it, with TLS (and HTTP/1.1 by ALPN) and without: `node node.mjs CERTIFICATE KEY`.
// It prints `listening on TLS_PORT PLAIN_PORT`.

import { readFileSync } from "node:fs";
import http2 from "node:http2";

const [certificate, key] = process.argv.slice(2);
// What /seen tells: streams at once on a connection, and those beyond what it was allowed.
const seen = { requests: 0, mostAtOnce: 0, mostAfterSettings: 0 };

function onSession(session) {
  session.streams = 0;
  session.isNarrow = false;
  session.on("error", () => {});
}

function onStream(stream, headers) {
  const { session } = stream;
  const [path, value] = headers[":path"].slice(1).split("/");
  seen.requests += 1;
  session.streams += 1;
  stream.on("close", () => (session.streams -= 1));
  stream.on("error", () => {});
  seen.mostAtOnce = Math.max(seen.mostAtOnce, session.streams);
  if (session.isNarrow) seen.mostAfterSettings = Math.max(seen.mostAfterSettings, session.streams);
  switch (path) {
    case "seen":
      stream.respond({ ":status": 200, "content-type": "application/json" });
      stream.end(JSON.stringify(seen));
      break;
    case "bytes":
      stream.respond({ ":status": 200 });
      stream.end("x".repeat(Number(value)));
      break;
    case "trailers":
      stream.respond({ ":status": 200 }, { waitForTrailers: true });
      // With HTTP/1.1 allowed, Node sends its own as well, which are none.
      stream.on("wantTrailers", () => stream.sentTrailers || stream.sendTrailers({ "x-checksum": "13" }));
      stream.end("Hello, World!");
      break;
    // From when the client has acknowledged it, one stream at a time.
    case "narrow":
      session.settings({ maxConcurrentStreams: 1 }, () => {
        setImmediate(() => (session.isNarrow = true));
      });
      stream.respond({ ":status": 200 });
      stream.end("Hello, World!");
      break;
    case "echo": {
      const pieces = [];
      stream.on("data", (piece) => pieces.push(piece));
      stream.on("end", () => {
        // The client has reset it.
        if (stream.aborted || stream.destroyed) return;
        stream.respond({ ":status": 200, "x-method": headers[":method"] });
        stream.end(Buffer.concat(pieces));
      });
      break;
    }
    default:
      stream.respond({ ":status": 200 });
      setImmediate(() => stream.end("Hello, World!"));
  }
}

const options = { cert: readFileSync(certificate), key: readFileSync(key), allowHTTP1: true };
const secure = http2.createSecureServer(options, (request, response) => {
  // `onStream` responds over HTTP/2.
  if (request.httpVersionMajor === 1) response.end("Hello, World!");
});
const plain = http2.createServer();
for (const server of [secure, plain]) {
  server.on("session", onSession);
  server.on("stream", onStream);
  server.on("sessionError", () => {});
}
secure.listen(0, "127.0.0.1", () =>
  plain.listen(0, "127.0.0.1", () => console.log(`listening on ${secure.address().port} ${plain.address().port}`)),
);
