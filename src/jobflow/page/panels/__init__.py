"""Parts of the page: each turns objects of the cluster into fragments."""
