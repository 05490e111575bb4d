// Loaded into a Node server before it starts: a listen() that names no address gets 127.0.0.1, so
// that servers which listen on every interface can be tested on this machine alone.
const net = require("node:net");

const listen = net.Server.prototype.listen;

net.Server.prototype.listen = function (port, host, ...rest) {
  const named = typeof host === "string";
  if (typeof port === "object" || named) {
    return listen.call(this, port, host, ...rest);
  }
  return listen.call(this, Number(port), "127.0.0.1", host, ...rest);
};
