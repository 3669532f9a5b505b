// A Worker that ends when it gets its first message.
declare const self: Worker;

self.onmessage = () => process.exit(1);
