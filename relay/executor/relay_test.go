package executor_test

import (
	"context"
	"log"
	"net/http/httptest"
	"time"

	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/rendezvous"
	"github.com/wsd-dev/wsd/relay/seal"
)

// startRelay starts a relay on this machine. It returns its URL, how to make tokens,
// and how to end it.
func startRelay(ctx context.Context) (url string, token func(rendezvous.Role) string, end func()) {
	state := rendezvous.NewMemory()
	server := httptest.NewUnstartedServer(nil)
	url = "http://" + server.Listener.Addr().String()
	node, err := rendezvous.New(rendezvous.Config{State: state, PublicURL: url})
	if err != nil {
		log.Fatal(err)
	}
	server.Config.Handler = node.Handler()
	server.Start()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	token = func(role rendezvous.Role) string {
		_, secret, err := rendezvous.Tokens{State: state}.Create(ctx, rendezvous.Token{Role: role, Environment: "lab"})
		if err != nil {
			log.Fatal(err)
		}
		return secret
	}
	return url, token, func() {
		draining, stop := context.WithTimeout(ctx, 5*time.Second)
		defer stop()
		if err := node.Drain(draining); err != nil {
			log.Print(err)
		}
		cancel()
		if err := <-ended; err != nil {
			log.Print(err)
		}
		server.Close()
	}
}

func newClient(url, token string) *registry.Client {
	credential, err := registry.Bearer(token)
	if err != nil {
		log.Fatal(err)
	}
	client, err := registry.New(registry.Config{BaseURLs: []string{url}, Credential: credential})
	if err != nil {
		log.Fatal(err)
	}
	return client
}

func newIdentity() *seal.Identity {
	identity, err := seal.NewIdentity()
	if err != nil {
		log.Fatal(err)
	}
	return identity
}
