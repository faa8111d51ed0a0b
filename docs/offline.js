// Browsers refuse workers in pages that were opened from a folder. The search's worker runs in a hidden frame there.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    onmessage = null;
    #waiting = [];
    #frame = document.createElement("iframe");

    constructor(url) {
      super();
      this.#frame.hidden = true;
      this.#frame.addEventListener("load", () => this.#start(url), { once: true });
      document.body.append(this.#frame);
    }

    #start(url) {
      const { contentWindow: inside, contentDocument } = this.#frame;
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.onmessage?.(event);
        this.dispatchEvent(event);
      };
      const script = contentDocument.createElement("script");
      script.src = url;
      script.addEventListener("load", () => {
        const waiting = this.#waiting;
        this.#waiting = null;
        for (const data of waiting) this.postMessage(data);
      });
      contentDocument.head.append(script);
    }

    postMessage(data) {
      const inside = this.#frame.contentWindow;
      if (this.#waiting) this.#waiting.push(data);
      else inside.dispatchEvent(new inside.MessageEvent("message", { data }));
    }

    terminate() {
      this.#frame.remove();
    }
  };
