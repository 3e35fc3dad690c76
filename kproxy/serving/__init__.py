"""A broker made of a recording: clients get the answers that the recorded brokers gave (`kproxy serve`)."""
