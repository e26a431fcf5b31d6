package raw

import "testing"

func TestQuickAck(t *testing.T) {
	addr := serve(t, echo)
	c, err := Dial(t.Context(), addr, Config{QuickAck: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Send([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if got, err := c.ReadBytes(); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
}
