// A server in its own process: it answers the first request of each connection, and a moment later
// sends a second, unsolicited response. It prints its port.
const ANSWER = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n";

const listener = Bun.listen<{ hasAnswered: boolean }>({
  hostname: "127.0.0.1",
  port: 0,
  socket: {
    open: (socket) => {
      socket.data = { hasAnswered: false };
    },
    data: (socket) => {
      if (!socket.data.hasAnswered) {
        socket.data.hasAnswered = true;
        socket.write(`${ANSWER}good`);
        setTimeout(() => socket.write(`${ANSWER}evil`), 10);
      }
    },
  },
});
process.stdout.write(`${listener.port}\n`);
