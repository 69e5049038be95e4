// A live subscriber in another language, without any library: node subscriber.mjs ipc:///path | tcp://127.0.0.1:PORT
//
// NNG's wire is eight bytes of greeting ("\0SP\0", protocol, reserved: pub is 32, sub is 33), then messages, each with
// its length in eight bytes, big end first; on ipc one byte (1) stands before the length. Prints one body a line.
import net from "node:net";

const address = process.argv[2];
const onIpc = address.startsWith("ipc://");
const lead = onIpc ? 1 : 0;
const [, host, port] = onIpc ? [] : address.match(/^tcp:\/\/([^:]+):(\d+)$/);
const socket = onIpc ? net.connect(address.slice("ipc://".length)) : net.connect(Number(port), host);
let buffered = Buffer.alloc(0);
let greeted = false;

socket.on("connect", () => socket.write(Buffer.from([0, 0x53, 0x50, 0, 0, 33, 0, 0])));
socket.on("data", (chunk) => {
  buffered = Buffer.concat([buffered, chunk]);
  if (!greeted && buffered.length >= 8) {
    if (buffered.readUInt16BE(4) !== 32) throw new Error("no event publisher is at this address");
    greeted = true;
    buffered = buffered.subarray(8);
  }
  while (greeted && buffered.length >= lead + 8) {
    const end = lead + 8 + Number(buffered.readBigUInt64BE(lead));
    if (buffered.length < end) break;
    const message = buffered.subarray(lead + 8, end);
    buffered = buffered.subarray(end);
    const nul = message.indexOf(0);
    const topic = message.subarray(0, nul).toString();
    const body = JSON.parse(message.subarray(nul + 1).toString());
    if (topic !== "hb") console.log(`${topic} ${JSON.stringify(body)}`);
    else if (body.end) socket.end();
    else if (body.seq === 0) console.error("connected");
  }
});
