/* Search from a folder. Browsers start no worker from a file, so there the search runs in a hidden frame, which answers as a worker does. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      this.ready = new Promise((started) => {
        const begin = () => {
          document.body.append(frame);
          const inside = frame.contentWindow, script = inside.document.createElement("script");
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          script.src = address;
          script.onload = () => started(inside);
          inside.document.head.append(script);
        };
        if (document.body) begin(); else addEventListener("DOMContentLoaded", begin);
      });
    }
    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }
  };
}
