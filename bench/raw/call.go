package raw

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
)

// A Wire carries the messages of a Client.
type Wire interface {
	Send(msg []byte) error
	// ReadBytes returns the next message, which is valid until the next call.
	ReadBytes() ([]byte, error)
	Close() error
}

// A Client is one connection to an exec-server.
type Client struct {
	// OnNotify, if set, is given the notifications that arrive during Call.
	OnNotify func(Message)

	wire   Wire
	ws     *webSocket // the wire, if Dial made it
	lastID int64
}

// Over makes a Client of another wire than Dial's.
func Over(w Wire) *Client { return &Client{wire: w} }

// Send sends a message as it is.
func (c *Client) Send(msg []byte) error { return c.wire.Send(msg) }

// ReadBytes returns the next message, which is valid until the next call. It answers
// pings.
func (c *Client) ReadBytes() ([]byte, error) { return c.wire.ReadBytes() }

// Close ends the connection, without ado.
func (c *Client) Close() error { return c.wire.Close() }

// Conn is the connection below the WebSocket of Dial, for what is no message.
func (c *Client) Conn() net.Conn { return c.ws.conn }

// SendBinary sends msg as one binary message of the WebSocket of Dial.
func (c *Client) SendBinary(msg []byte) error { return c.ws.send(opBinary, msg) }

// Read returns the next message.
func (c *Client) Read() (Message, error) {
	raw, err := c.ReadBytes()
	if err != nil {
		return Message{}, err
	}
	return parse(raw)
}

// Encode makes the request that Await(id) gets the answer of, to be sent with Send.
func (c *Client) Encode(method string, params any) (id int64, msg []byte, err error) {
	body, err := json.Marshal(params)
	if err != nil {
		return 0, nil, err
	}
	c.lastID++
	msg = append(strconv.AppendInt([]byte(`{"id":`), c.lastID, 10), `,"method":"`+method+`","params":`...)
	return c.lastID, append(append(msg, body...), '}'), nil
}

// Request sends a request and returns its id.
func (c *Client) Request(method string, params any) (int64, error) {
	id, msg, err := c.Encode(method, params)
	if err != nil {
		return 0, err
	}
	return id, c.Send(msg)
}

// Await reads until the answer to the request id, handing notifications to OnNotify.
func (c *Client) Await(id int64) (Message, error) {
	for {
		m, err := c.Read()
		switch {
		case err != nil:
			return m, err
		case m.Method != "":
			if c.OnNotify != nil {
				c.OnNotify(m)
			}
		case m.ID == id:
			return m, nil
		default:
			return m, fmt.Errorf("answer to %d while waiting for %d: %.200s", m.ID, id, m.Raw)
		}
	}
}

// ReadUntil reads until done is satisfied. An error response is an error.
func (c *Client) ReadUntil(done func(Message) bool) error {
	for {
		m, err := c.Read()
		if err != nil {
			return err
		}
		if m.Failed {
			return fmt.Errorf("refused: %.300s", bytes.TrimSpace(m.Raw))
		}
		if done(m) {
			return nil
		}
	}
}

// Call sends a request and decodes its result into result, which may be nil.
func (c *Client) Call(method string, params, result any) error {
	id, err := c.Request(method, params)
	if err != nil {
		return err
	}
	m, err := c.Await(id)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	if !m.Failed && result == nil {
		return nil
	}
	if err := m.Decode(result); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// Initialize opens a session, or takes over the one called resume, and returns its id.
func (c *Client) Initialize(resume string) (string, error) {
	params := map[string]any{"clientName": "raw"}
	if resume != "" {
		params["resumeSessionId"] = resume
	}
	var result struct{ SessionID string }
	if err := c.Call("initialize", params, &result); err != nil {
		return "", err
	}
	return result.SessionID, c.Send([]byte(`{"method":"initialized","params":{}}`))
}

// Start is the parameters of process/start.
type Start struct {
	ProcessID string            `json:"processId"`
	Argv      []string          `json:"argv"`
	Cwd       string            `json:"cwd"`
	Env       map[string]string `json:"env"`
	TTY       bool              `json:"tty"`
	PipeStdin bool              `json:"pipeStdin"`
}

// NewStart is a process called id that runs argv in the root directory.
func NewStart(id string, argv ...string) Start {
	return Start{ProcessID: id, Argv: argv, Cwd: "file:///", Env: map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin"}}
}
