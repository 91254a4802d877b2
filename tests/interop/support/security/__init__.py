"""What a broker that asks for a login needs: certificates, and a KDC."""
